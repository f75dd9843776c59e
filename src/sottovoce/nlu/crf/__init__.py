"""The linear-chain CRF: likelihood, marginals and Viterbi decoding."""
