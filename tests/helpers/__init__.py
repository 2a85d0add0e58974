"""What the suites share: running the command line, terminals, leftovers, hostile names."""
