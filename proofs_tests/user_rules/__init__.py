"""Rules and tactics of a user's own: judged before they are used, marked where they are not proved."""
