package dbt

// The types in this file are the properties files of dbt.

type sourcesFile struct {
	Sources []source `yaml:"sources"`
}

type source struct {
	Name        string        `yaml:"name"`
	Description string        `yaml:"description"`
	Schema      string        `yaml:"schema,omitempty"`
	Config      *tableConfig  `yaml:"config,omitempty"`
	Tables      []sourceTable `yaml:"tables"`
}

type sourceTable struct {
	Name        string       `yaml:"name"`
	Description string       `yaml:"description,omitempty"`
	Config      *tableConfig `yaml:"config,omitempty"`
	Tests       []test       `yaml:"data_tests,omitempty"`
	Columns     []column     `yaml:"columns,omitempty"`
}

type tableConfig struct {
	LoadedAtQuery string     `yaml:"loaded_at_query,omitempty"`
	Freshness     *freshness `yaml:"freshness,omitempty"`
	Meta          *meta      `yaml:"meta,omitempty"`
}

// meta says where the files of a lake are, in the form that dbt-duckdb reads. It also says what the macro
// penstock_changes needs.
type meta struct {
	ExternalLocation string `yaml:"external_location,omitempty"`
	Penstock         *about `yaml:"penstock,omitempty"`
}

type about struct {
	Mode   string   `yaml:"mode"`
	Key    []string `yaml:"key,omitempty"`
	Parent string   `yaml:"parent,omitempty"`
	Shared bool     `yaml:"shared,omitempty"`
}

type freshness struct {
	WarnAfter  period `yaml:"warn_after"`
	ErrorAfter period `yaml:"error_after"`
}

type period struct {
	Count  string `yaml:"count"`
	Period string `yaml:"period"`
}

type models struct {
	Models []model `yaml:"models"`
}

type model struct {
	Name        string   `yaml:"name"`
	Description string   `yaml:"description"`
	Tests       []test   `yaml:"data_tests,omitempty"`
	Columns     []column `yaml:"columns,omitempty"`
}

type column struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description,omitempty"`
	DataType    string `yaml:"data_type,omitempty"`
	Quote       bool   `yaml:"quote"`
	Tests       []test `yaml:"data_tests,omitempty"`
}

// test is a test by its name: a text, or a map from the name to its arguments and settings.
type test any

type testBody struct {
	Arguments map[string]any `yaml:"arguments,omitempty"`
	Config    testConfig     `yaml:"config,omitempty"`
}

type testConfig struct {
	Severity string `yaml:"severity,omitempty"`
	Where    string `yaml:"where,omitempty"`
}
