"""HTTP and the admin socket."""
