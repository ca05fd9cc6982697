package servers

import "math/rand/v2"

// rarely gives one list in eight what few lists have. It has a source of numbers of its
// own, so that the other lists of the seeds stay as they are.
func (d *drawer) rarely() {
	d.Rand = rand.New(rand.NewPCG(d.Seed, 0x7a7e))
	if !d.chance(8) {
		return
	}
	rare[d.IntN(len(rare))](d)
}

// rare are the features that few lists have.
var rare = []func(*drawer){
	func(d *drawer) { // pages break ties in their own way
		d.Records.Order = OrderTies
	},
	func(d *drawer) { // a record takes the id of another one
		if d.Records.Key != "" && d.Records.Form == FormFlat {
			d.Edits.Rekey = 1 + d.IntN(2)
		}
	},
	func(d *drawer) { // a record has no id
		if d.Records.Key != "" && d.Records.Form == FormFlat {
			d.Records.Odd = OddID
		}
	},
	func(d *drawer) { // later pages come from a cache
		if d.Paging.Kind == KindWhole || d.Paging.Kind == KindCap || d.Size.Param != "" {
			return // all of the list may come in one answer, and that be from the cache
		}
		for row := d.Size.Default + 1; row <= d.Records.Count; row += d.Size.Default {
			d.Faults = append(d.Faults, Fault{Kind: FaultCached, Run: 2, Row: row})
		}
	},
	func(d *drawer) { // few pages have the signals
		for i, s := range d.Signals {
			if sayings[s.Says] != nil && s.Says != "request" {
				d.Signals[i].Every = 2 + d.IntN(3)
			}
		}
	},
	func(d *drawer) { // another stream shows the same records
		d.Reader.Twin = true
	},
	func(d *drawer) { // the details of the records are read
		if d.Records.Key != "" && d.Records.Form == FormFlat && d.Records.Twice == 0 && d.Method == "" {
			d.Reader.Details, d.Edits.Swap = true, d.IntN(2)
		}
	},
	func(d *drawer) { // what has changed is requested
		if d.Records.Form == FormFlat {
			d.Records.Times, d.Reader.Since = true, pick(d, "updated_since", "changed_after", "modified_since")
		}
	},
}
