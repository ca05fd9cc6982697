package drift

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
)

// Severity is how serious a change of a stream is.
type Severity string

const (
	Noted    Severity = "noted"    // worth knowing, but harmless
	Warned   Severity = "warned"   // worth a look; the rows are loaded
	Blocking Severity = "blocking" // the stream is held until a person has looked
)

// Notice is one difference between a pass and the previous pass.
type Notice struct {
	Severity Severity `json:"severity"`
	Kind     string   `json:"about"` // see the Notice constants
	Table    string   `json:"table"`
	Column   string   `json:"column,omitempty"`
	From     string   `json:"from,omitempty"` // types, if the type has changed
	To       string   `json:"to,omitempty"`
	Reason   string   `json:"reason"`
}

// The kinds of changes of a stream.
const (
	NoticeNew      = "new_field"
	NoticeVanished = "vanished_field"
	NoticeType     = "type_mix"
	NoticeNulls    = "null_rate"
	NoticeCount    = "count"
	NoticePage     = "page_size"
	NoticeEnvelope = "envelope"

	NoticeIncremental = "incremental"
	NoticeFilter      = "filter"
	NoticeKey         = "key"        // two different records have the same key
	NoticeHypothesis  = "hypothesis" // the answers refute a hypothesis about the stream
	NoticeBound       = "bound"      // the stream has more fields than its limit of columns or child tables
	NoticeTable       = "table"      // the table is not the table that the last pass wrote
)

// tolerances are the limits of a normal change from one run to the next. A loss of rows causes a notice only if it
// exceeds both the limits `loss` and `share`. Growth causes a notice only if it exceeds both `growth` and `gained`.
type tolerances struct {
	evidence float64 // a field has vanished if at least this many of its values were expected and none arrived
	nulls    float64 // a smaller change of the share of rows with a value causes no notice
	sigmas   float64 // a change of the share of rows with a value may be chance if it is fewer standard deviations than this
	loss     int64
	share    float64
	growth   float64
	gained   int64
}

// usualTolerances are the tolerances for all streams. The limits for a loss are those above which deletions need a
// person's confirmation. So a loss that needs no confirmation causes no notice.
var usualTolerances = tolerances{evidence: 14, nulls: 0.25, sigmas: 5, loss: proof.BrakeRows, share: proof.BrakeShare / 100.0, growth: 3, gained: 1000}

// Compare compares two profiles and returns the notices, the gravest first.
func Compare(before, now *Profile, root string) []Notice {
	t := usualTolerances
	if before == nil || now == nil {
		return nil
	}
	var all []Notice
	if b, n := before.Page, now.Page; b > 0 && n > 0 && b != n {
		all = append(all, Notice{Severity: Noted, Kind: NoticePage, Table: root, Reason: fmt.Sprintf("the fullest page has %d records, and had %d before", n, b)})
	}
	all = append(all, t.count(root, before.Tables[root].Rows, now.Tables[root].Rows)...)
	for _, name := range slices.Sorted(maps.Keys(before.Tables)) {
		if now.Tables[name].Rows > 0 {
			all = append(all, t.columns(name, before.Tables[name], now.Tables[name])...)
			continue
		}
		records := now.Tables[root].Rows
		if had := part(before.Tables[name].Rows, before.Tables[root].Rows); had*float64(records) >= t.evidence {
			all = append(all, Notice{Severity: Warned, Kind: NoticeVanished, Table: name, Reason: fmt.Sprintf("none of %d records has rows in it; before, there were %d rows for %d records", records, before.Tables[name].Rows, before.Tables[root].Rows)})
		}
	}
	Gravest(all)
	return all
}

// Gravest sorts notices by severity, the gravest first.
func Gravest(all []Notice) {
	slices.SortStableFunc(all, func(a, b Notice) int { return -cmp.Compare(rank(a.Severity), rank(b.Severity)) })
}

func rank(s Severity) int { return slices.Index([]Severity{Noted, Warned, Blocking}, s) }

func (t tolerances) count(table string, before, now int64) []Notice {
	switch lost := before - now; {
	case lost > t.loss && float64(lost) > t.share*float64(before):
		return []Notice{{Severity: Warned, Kind: NoticeCount, Table: table, Reason: fmt.Sprintf("%d records arrived, and %d in the previous pass", now, before)}}
	case -lost > t.gained && float64(now) > t.growth*float64(before):
		return []Notice{{Severity: Noted, Kind: NoticeCount, Table: table, Reason: fmt.Sprintf("%d records arrived, and only %d in the previous pass", now, before)}}
	}
	return nil
}

func (t tolerances) columns(table string, before, now TableProfile) []Notice {
	var all []Notice
	for _, name := range slices.Sorted(maps.Keys(before.Columns)) {
		b, n := before.Columns[name], now.Columns[name]
		d := Notice{Severity: Noted, Table: table, Column: name}
		was, is := part(b.Filled, before.Rows), part(n.Filled, now.Rows)
		switch {
		case n.Filled == 0 && was*float64(now.Rows) >= t.evidence:
			d.Kind, d.Reason = NoticeVanished, fmt.Sprintf("none of %d records has it, and %s had it before", now.Rows, percent(was))
			if was >= 0.5 {
				d.Severity = Warned
			}
		case n.Filled > 0 && b.Type != n.Type:
			d.Kind, d.From, d.To, d.Reason = NoticeType, b.Type, n.Type, fmt.Sprintf("the type of the values changed from %s to %s", b.Type, n.Type)
			if n.Type == "text" || n.Type == "json" {
				d.Severity = Warned
			}
		case n.Filled > 0 && math.Abs(was-is) >= t.nulls && unlikely(b.Filled, before.Rows, n.Filled, now.Rows) >= t.sigmas:
			d.Kind, d.Reason = NoticeNulls, fmt.Sprintf("%s of %d records have it, and %s of %d had it before", percent(is), now.Rows, percent(was), before.Rows)
			if is < was {
				d.Severity = Warned
			}
		default:
			continue
		}
		all = append(all, d)
	}
	for _, name := range slices.Sorted(maps.Keys(now.Columns)) {
		if _, known := before.Columns[name]; !known && before.Rows > 0 {
			all = append(all, Notice{Severity: Noted, Kind: NoticeNew, Table: table, Column: name, To: now.Columns[name].Type,
				Reason: fmt.Sprintf("%s of %d records have it, and none had it before", percent(part(now.Columns[name].Filled, now.Rows)), now.Rows)})
		}
	}
	return all
}

func part(n, of int64) float64 {
	if of <= 0 {
		return 0
	}
	return float64(n) / float64(of)
}

func percent(share float64) string {
	switch p := 100 * share; {
	case share > 0 && p < 1:
		return "less than 1 %"
	case share < 1 && p > 99:
		return "more than 99 %"
	default:
		return fmt.Sprintf("%.0f %%", p)
	}
}

// The function unlikely() returns the difference of two shares, a/of and b/from, in standard deviations. With few
// records even a large difference may be chance.
func unlikely(a, of, b, from int64) float64 {
	pooled := part(a+b, of+from)
	deviation := math.Sqrt(pooled * (1 - pooled) * (1/float64(max(1, of)) + 1/float64(max(1, from))))
	if deviation == 0 {
		return 0
	}
	return math.Abs(part(a, of)-part(b, from)) / deviation
}
