package load

import "fmt"

// Step calls the function step with the name of the point that a commit has reached. If step is nil, Step does nothing.
// An error from step stops the commit.
func Step(step func(name string) error, name string) error {
	if step == nil {
		return nil
	}
	if err := step(name); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
