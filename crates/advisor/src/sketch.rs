//! Small summaries of many values: quantiles and heavy hitters.
