"""Programs read from text: tokens, index expressions and conditions, tensor expressions and declarations."""
