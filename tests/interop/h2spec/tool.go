//go:build tool

// Package h2spec pins the tool and what it is built from.
package h2spec

import _ "github.com/summerwind/h2spec/cmd/h2spec"
