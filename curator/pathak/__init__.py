"""Charlie of Pathak 2010, and what his output is worth."""
