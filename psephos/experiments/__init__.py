"""The experiments of the three papers, with their numbers beside ours."""
