package board

import "sync"

// Update says that the data of a pipeline or of a page has changed.
type Update struct {
	Pipeline string `json:"pipeline,omitempty"`
	Page     string `json:"page,omitempty" jsonschema:"description=Name of a page\\, for example webhooks."`
}

const kept = 1024

// Feed passes updates to any number of readers. It keeps the last updates in a ring that all readers share, and
// never waits for a reader. If a reader is too slow and has missed updates, After reports it. The zero value is
// ready to use. Feed is safe for concurrent use. // Invariant 6
type Feed struct {
	mu         sync.Mutex
	last       uint64 // number of the newest update, from 1
	notes      [kept]Update
	nextChange chan struct{} // closed by the next Publish; nil while no reader waits
}

// Publish adds an update.
func (f *Feed) Publish(n Update) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	f.notes[f.last%kept] = n
	if f.nextChange != nil {
		close(f.nextChange)
		f.nextChange = nil
	}
}

// Last returns the number of the newest update, or 0 if there was none.
func (f *Feed) Last() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// After returns the updates with a number above n, and the number of the last one. If some of these updates are no
// longer stored, the result lost is true, and the reader must load everything again. If there is no update above n yet,
// After returns a channel, which the next Publish closes.
func (f *Feed) After(n uint64) (notes []Update, last uint64, lost bool, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n > f.last || f.last-n > kept {
		return nil, f.last, true, nil // n is from an earlier daemon, or too old
	}
	for i := n + 1; i <= f.last; i++ {
		notes = append(notes, f.notes[i%kept])
	}
	if notes == nil {
		if f.nextChange == nil {
			f.nextChange = make(chan struct{})
		}
		changed = f.nextChange
	}
	return notes, f.last, false, changed
}
