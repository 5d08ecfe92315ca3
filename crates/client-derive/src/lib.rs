//! The derive macros of `tavola-client`: entities, sets of entity types, and checked filters.
