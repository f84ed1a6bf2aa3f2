"""Budgets: limits, bookkeeping and reports of model costs."""
