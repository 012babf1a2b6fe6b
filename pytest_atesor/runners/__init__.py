"""How a case is run: the runner protocol, one child process with its deadline, and the runner of ports."""
