"""The notebook: answers by rule where no language model is configured. Its modules are loaded when it is the model."""

NAME = "offline/notebook"
