"""The settings: how they are read, checked, shown and changed."""
