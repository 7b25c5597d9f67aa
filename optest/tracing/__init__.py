"""One case as a Chrome trace: operators, kernels, and what the harness was doing."""
