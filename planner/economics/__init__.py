"""Economics: price of a GPU-hour, cost per token, power and energy."""
