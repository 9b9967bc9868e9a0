"""The programs of Fig. 8.6 (corrected), each schedule written out by hand."""
