"""How does this machine compute? Summation orders, special functions, random numbers, by asking its operators."""
