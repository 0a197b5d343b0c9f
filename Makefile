.PHONY: help demo test check clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo:  ## set up, pull the 1.5B model, and watch an agent work
	@scripts/demo

test:  ## set up, pull the 0.5B model, run the checks and all tests
	@scripts/test

check:  ## format, lint, types, direction of imports
	@scripts/setup
	@scripts/check

clean:  ## remove .venv and everything that was built; pulled models stay
	rm -rf .venv dist build .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
