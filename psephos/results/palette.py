"""The report's colours, with the contrasts of WCAG 2.1 level AA; no meaning depends on colour alone."""

from __future__ import annotations

# For a light screen and for paper.
LIGHT = {
    "paper": "#ffffff",
    "raised": "#f3f5f7",
    "ink": "#1b2026",
    "quiet": "#535b65",
    "rule": "#828b96",
    "faint": "#d5dae0",
    "blue": "#0b5cad",
    "orange": "#a84300",
    "green": "#0d6b47",
    "violet": "#7440a3",
    "rose": "#a82458",
    "olive": "#665700",
}

# For a dark screen.
DARK = {
    "paper": "#14171b",
    "raised": "#1f242a",
    "ink": "#e8ebee",
    "quiet": "#aab3bd",
    "rule": "#7f8995",
    "faint": "#39414a",
    "blue": "#78b4f5",
    "orange": "#f2a36b",
    "green": "#5fcf9f",
    "violet": "#c7a2f0",
    "rose": "#f58fb4",
    "olive": "#d6c25a",
}

# SURFACES are backgrounds. TEXTS are readable on each of them; MARKS are visible on paper.
SURFACES = ("paper", "raised")
TEXTS = ("ink", "quiet", "blue", "orange", "green", "violet", "rose", "olive")
MARKS = (*TEXTS, "rule")
