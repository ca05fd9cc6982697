package board

import "sync"

// Note says that something has changed: what is known of a pipeline, or else what
// stands on a page of its own.
type Note struct {
	Pipeline string `json:"pipeline,omitempty"`
	Page     string `json:"page,omitempty" jsonschema:"description=Such as webhooks."`
}

// kept is how many notes a Feed remembers for readers that are behind.
const kept = 1024

// Feed hands notes to any number of readers. It keeps the last ones, once for all
// of them, and never waits for any: a reader that falls behind is told so. The
// zero value is ready; its methods may be called from any goroutine.
// Invariant 6
type Feed struct {
	mu    sync.Mutex
	last  uint64 // number of the newest note, from 1
	notes [kept]Note
	more  chan struct{} // closed by the next note; nil while nobody waits
}

// Tell adds a note.
func (f *Feed) Tell(n Note) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	f.notes[f.last%kept] = n
	if f.more != nil {
		close(f.more)
		f.more = nil
	}
}

// Last is the number of the newest note, 0 before the first.
func (f *Feed) Last() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// After returns the notes after number n and the number of the last of them. Lost
// says that there were more than are kept: the reader has to look at everything
// anew. Where there is none yet, more is closed by the next.
func (f *Feed) After(n uint64) (notes []Note, last uint64, lost bool, more <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n > f.last || f.last-n > kept {
		return nil, f.last, true, nil // of a daemon before this one, or too old
	}
	for i := n + 1; i <= f.last; i++ {
		notes = append(notes, f.notes[i%kept])
	}
	if notes == nil {
		if f.more == nil {
			f.more = make(chan struct{})
		}
		more = f.more
	}
	return notes, f.last, false, more
}
