package load

import "fmt"

// Step names the point that a commit has reached to whoever asked for it: step,
// where it is not nil, which stops the commit by an error.
func Step(step func(name string) error, name string) error {
	if step == nil {
		return nil
	}
	if err := step(name); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
