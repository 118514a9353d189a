"""What only small models need: worked examples of calls, and rules against copying them."""
