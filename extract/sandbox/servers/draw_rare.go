package servers

import "math/rand/v2"

// addRareFeature gives one list in eight a rare feature. It has its own random sequence, so that all other features
// of a seed stay the same.
func (d *drawer) addRareFeature() {
	d.Rand = rand.New(rand.NewPCG(d.Seed, 0x7a7e))
	if !d.chance(8) {
		return
	}
	rare[d.IntN(len(rare))](d)
}

var rare = []func(*drawer){
	func(d *drawer) { // records with equal values are in another order on each page
		d.Records.Order = OrderTies
	},
	func(d *drawer) {
		if d.Records.Key != "" && d.Records.Form == FormFlat {
			d.Edits.Rekey = 1 + d.IntN(2)
		}
	},
	func(d *drawer) {
		if d.Records.Key != "" && d.Records.Form == FormFlat {
			d.Records.Odd = OddID
		}
	},
	func(d *drawer) {
		if d.Paging.Kind == KindWhole || d.Paging.Kind == KindCap || d.Size.Param != "" {
			return // one cached answer may hold the whole list, and nothing shows that it is old
		}
		for row := d.Size.Default + 1; row <= d.Records.Count; row += d.Size.Default {
			d.Faults = append(d.Faults, Fault{Kind: FaultCached, Run: 2, Row: row})
		}
	},
	func(d *drawer) {
		for i, s := range d.Signals {
			if sayings[s.Says] != nil && s.Says != "request" {
				d.Signals[i].Every = 2 + d.IntN(3)
			}
		}
	},
	func(d *drawer) {
		d.Reader.Twin = true
	},
	func(d *drawer) {
		if d.Records.Key != "" && d.Records.Form == FormFlat && d.Records.Twice == 0 && d.Method == "" {
			d.Reader.Details, d.Edits.Swap = true, d.IntN(2)
		}
	},
	func(d *drawer) {
		if d.Records.Form == FormFlat {
			d.Records.Times, d.Reader.Since = true, pick(d, "updated_since", "changed_after", "modified_since")
		}
	},
}
