"""Keys of model providers that stand in files of their own: profiles, their order, and how each has been doing."""
