"""What the roles of private gradient descent agree on, and the one message it adds to an encrypted sum (Rajkumar 2012)."""
