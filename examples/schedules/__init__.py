"""Programs without rewrites: those of Fig. 8.6 (corrected) with each schedule written by hand, and others."""
