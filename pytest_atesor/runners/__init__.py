"""How a case is run: the runner protocol, one child process with its deadline, the runners of our kinds."""
