// The Ignition that reads version 2.3, and whose fork Flatcar has. main.go uses its parser, and guests run its program.
module capstan.dev/hack/tools/ignition

go 1.26.0

tool github.com/coreos/ignition/internal

require github.com/coreos/ignition v0.35.0

// The first version with an option that go-systemd uses. Later ones have another name.
replace github.com/godbus/dbus => github.com/godbus/dbus v0.0.0-20190726142602-4481cbc300e2

// The first name of this module is not available any more.
replace github.com/ajeddeloh/go-json => github.com/coreos/go-json v0.0.0-20230131223807-18775e0fb4fb

// These modules are not available. Only VMware's provider uses them.
replace (
	github.com/sigma/vmw-guestinfo => ./vmware/guestinfo
	github.com/vmware/vmw-ovflib => ./vmware/ovflib
)

require (
	github.com/ajeddeloh/go-json v0.0.0-00010101000000-000000000000 // indirect
	github.com/aws/aws-sdk-go v1.55.8 // indirect
	github.com/coreos/go-semver v0.3.1 // indirect
	github.com/coreos/go-systemd v0.0.0-20191104093116-d3cd4ed1dbcf // indirect
	github.com/godbus/dbus v0.0.0-00010101000000-000000000000 // indirect
	github.com/jmespath/go-jmespath v0.4.0 // indirect
	github.com/pin/tftp v2.1.0+incompatible // indirect
	github.com/sigma/vmw-guestinfo v0.0.0-00010101000000-000000000000 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	github.com/vincent-petithory/dataurl v1.0.0 // indirect
	github.com/vmware/vmw-ovflib v0.0.0-00010101000000-000000000000 // indirect
	go4.org v0.0.0-20260112195520-a5071408f32f // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)
