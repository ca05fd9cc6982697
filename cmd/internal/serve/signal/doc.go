// Package signal reports the state of the daemon to other systems, as Prometheus metrics, liveness and readiness,
// alerts through the services of shoutrrr, OpenTelemetry traces and OpenLineage run events.
//
// The package only observes. Runs never wait for it: if a receiver cannot be reached, messages are lost or late. No
// message contains the content of records or secrets. // Invariant 5
//
// Start with [NewMetrics] and [NewHealth], which need no configuration.
package signal
