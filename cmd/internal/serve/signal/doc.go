// Package signal is what operators of the daemon see of it besides the
// dashboard: Prometheus metrics, answers to the questions whether the process
// lives and whether it can work, alerts through the services of shoutrrr,
// traces of OpenTelemetry and run events of OpenLineage.
//
// Everything here listens and counts; nothing decides. What is told is told
// without waiting: whoever cannot be reached costs a message, never a run. No
// record's content and no secret goes out. // Invariant 5
//
// Begin with [NewMetrics] and [NewHealth], which need no configuration.
package signal
