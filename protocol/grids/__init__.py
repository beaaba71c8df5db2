"""What a party's vector means: which integer is which statistic. Imports NumPy alone."""
