"""Files that come with messages and files that an agent sends."""
