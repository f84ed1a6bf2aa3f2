"""Known models and providers: selection, names, keys, prices and limits."""
