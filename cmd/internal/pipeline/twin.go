package pipeline

// agreement is how the records of a stream compare with those of another that
// shows the same ones: its twin, read in the same run.
type agreement struct {
	stream string // the twin
	difference
}

// lacking reports whether the twin has records that the stream does not.
func (a *agreement) lacking() bool { return a != nil && a.there > 0 }

// agreement compares a reading with what the twin's last pass in this run has
// found. Readings that are not whole, or hold a record twice, compare with
// nothing.
func (p *pass) agreement(r *reading) *agreement {
	return nil
}
