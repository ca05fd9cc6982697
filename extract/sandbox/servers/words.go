package servers

var incompleteMarkers = []Fault{
	{At: "/partial", Value: raw(`true`)},
	{At: "/meta/partial", Value: raw(`true`)},
	{At: "/truncated", Value: raw(`true`)},
	{At: "/timed_out", Value: raw(`true`)},
	{At: "/complete", Value: raw(`false`)},
	{At: "/meta/complete", Value: raw(`false`)},
	{At: "/incomplete_results", Value: raw(`true`)},
	{At: "/status", Value: raw(`"partial"`)},
	{At: "/errors", Value: raw(`[{"message":"shard 3 did not answer"}]`)},
	{At: "/warnings", Value: raw(`["results are incomplete"]`)},
	{At: "/failures", Value: raw(`[{"shard":2}]`)},
	{At: "/_shards", Value: raw(`{"total":3,"successful":2,"failed":1}`)},
	{At: "/isPartial", Value: raw(`true`)},
	{At: "header X-Partial", Value: raw(`true`)},
	{Status: 206},
}
