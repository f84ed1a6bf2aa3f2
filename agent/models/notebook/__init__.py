"""The notebook: answers by rule where no language model is configured."""
