"""Figures and how they are made: metrics, baselines, the paper's protocols, calibration. Each module says its terms."""
