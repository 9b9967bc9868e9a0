"""Recipes: schedules by the form of a goal, for the machine that runs it, and `s.optimize()`, which runs them."""

from atl.parameters import check_calls as _check_calls
from rewrites.recipes.declaration import Context, Recipe, recipe
from rewrites.recipes.optimize import RECIPES, Report

__all__ = ["RECIPES", "Context", "Recipe", "Report", "recipe"]

_check_calls(globals())
