"""Text analysis: chunks, terms, stop words and dates. Knows neither files nor the index."""
