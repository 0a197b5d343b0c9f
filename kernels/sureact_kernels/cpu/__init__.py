"""The ops in C++ for a CPU, built on the machine that runs them."""
