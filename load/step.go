package load

import "fmt"

// Step calls step() with the name of the point that a commit has reached, unless step is nil. An error from step()
// stops the commit.
func Step(step func(name string) error, name string) error {
	if step == nil {
		return nil
	}
	if err := step(name); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
