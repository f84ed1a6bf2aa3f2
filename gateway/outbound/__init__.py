"""What goes out: replies cut, marked and delivered in order, and what a person sees meanwhile."""
