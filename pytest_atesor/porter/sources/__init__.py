"""How a package's source gets into a sandbox: git repositories, tarballs and Debian source packages.

Fetching happens inside the sandbox as the ordinary user. Only what needs something that the host alone has (a
path, a key, a password, an address on its loopback) is fetched by the host, as git objects or archive bytes:
nothing is checked out or unpacked there, and nothing that comes from the source is run there.
"""
