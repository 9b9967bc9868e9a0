"""The kernel of theorems and certificates: what they must refuse, however they are asked."""
