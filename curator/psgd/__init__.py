"""The third party of Rajkumar and Agarwal 2012."""
