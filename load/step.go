package load

import "fmt"

// Step calls step, if not nil, with the name of the point that a commit has reached. An error from step stops the
// commit.
func Step(step func(name string) error, name string) error {
	if step == nil {
		return nil
	}
	if err := step(name); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
