package sandbox

const (
	staffName  = "employee:users@employee_id{id name}"
	department = "departments:departments*department_ids{id department_name pivot=id|pivot}"
)

func hrEndpoints() []*endpoint {
	const employee = "* shift:shifts@shift{id shift_name} branch:branches@branch_id{id branch_name} department:departments@department_id{id department_name} " +
		"designation:designations@designation_id{id designation_name} user:users@user_id{id name email avatar|url}"
	const leave = "employee_id start_date end_date total_days status reason approver_comment leave_type_id attachment " +
		"leave_type:leave_types@leave_type_id?{id name color} created_by"
	const event = "* " + department + " eventType:event_types@event_type_id{id name} approvedBy:users@approved_by{*}"
	const entry = "id employee_id basic_salary total_allowances total_deductions gross_pay net_pay allowances_breakdown deductions_breakdown status"
	return []*endpoint{
		{route: "GET /api/employees", dialect: d2, from: "employees", view: "* user:users@user_id{id name email}", pager: laravelPager, size: 20},
		{route: "GET /api/employee/show/{id}", dialect: d2, from: "employees", idParam: "id", view: employee},
		{route: "GET /api/attendance", dialect: d1, message: "Attendance retrieved", from: "attendance", order: "-date", view: "*", pager: itemsPager, size: 15},
		{route: "POST /api/hrm/attendence-history", dialect: d1, message: "History", from: "attendance", where: "employee_id=2", month: "date",
			view: "id employee_id date clock_in clock_out total_hours=total_hour|hours break_hour overtime_hours status"},
		{route: "GET /api/leave-applications", dialect: d2, from: "leaves", view: leave},
		{route: "GET /api/hrm/get-leaves", dialect: d1, message: "Leaves", from: "leaves", order: "-created_at", view: "id " + leave, pager: itemsPager, size: 10},
		{route: "GET /api/leave-types", dialect: d1, message: "Leave types", from: "leave_types", view: "*"},
		{route: "GET /api/hrm/get-leaves-types", dialect: d1, message: "Leave types", from: "leave_types", view: "id name is_paid|flag color leave_balance=id|balance"},
		{route: "GET /api/leave-balances", dialect: d1, message: "Balances", from: "leave_balances",
			view: "employee_id " + staffName + " leave_type:leave_types@leave_type_id{id name} total used remaining", pager: itemsPager, size: 25},
		{route: "GET /api/holidays", dialect: d2, from: "holidays", view: "*"},
		{route: "GET /api/hrm/holidays-list", dialect: d1, message: "Holidays", from: "holidays", order: "start_date", view: "name start_date end_date", pager: itemsPager, size: 10},
		{route: "GET /api/events", dialect: d2, from: "events", view: event},
		{route: "POST /api/hrm/events", dialect: d1, message: "Events", from: "events", view: "id title start_date end_date start_time end_time location description|plain"},
		{route: "GET /api/payrolls", dialect: d1, message: "Payrolls", from: "payrolls", order: "-id", view: "*", pager: laravelPager, size: 4},
		{route: "GET /api/payrolls/{payroll_id}", dialect: d1, message: "Payroll", from: "payrolls", idParam: "payroll_id", view: "* entries:payroll_entries<payroll_id{" + entry + "}"},
		{route: "GET /api/payslip/{payroll_entry_id}", dialect: d1, message: "Payslip", from: "payroll_entries", idParam: "payroll_entry_id", view: entry + " -id " + staffName +
			" payroll:payrolls@payroll_id{id title pay_date}", wrap: named("payslip")},
		{route: "GET /api/hrm/home", dialect: d1, message: "Home", object: hrHome},
	}
}

func careerEndpoints() []*endpoint {
	set := func(path, from string, d dialect, p pager, view string) *endpoint {
		return &endpoint{route: "GET /api/" + path, dialect: d, message: "Records retrieved", from: from, order: "-id", view: view, pager: p, size: 5}
	}
	return []*endpoint{
		{route: "GET /api/branches", dialect: d2, from: "branches", view: "*"},
		{route: "GET /api/departments", dialect: d2, from: "departments", view: "* branch:branches@branch_id{id branch_name}"},
		{route: "GET /api/designations", dialect: d2, from: "designations", view: "*"},
		{route: "GET /api/shifts", dialect: d1, message: "Shifts", from: "shifts", view: "*", pager: laravelPager, size: 15},
		{route: "GET /api/document-types", dialect: d1, message: "Types", from: "document_types", view: "*", pager: simplePager, size: 3},
		set("hrm-documents", "hrm_documents", d2, nil, "* file_path|url"),
		set("acnowledments", "acknowledgments", d1, laravelPager, "* "+staffName+" document:hrm_documents@document_id{id title}"),
		set("announcements", "announcements", d1, itemsPager, "* "+department),
		set("awards", "awards", d2, nil, "-id employee_id "+staffName+" award_type:award_types@award_type_id{id name} award_date description certificate"),
		set("complaints", "complaints", d2, cursorPager, "* "+staffName+" against_employee:users@against_employee_id{id name}"),
		set("warnings", "warnings", d1, simplePager, "* "+staffName),
		set("promotions", "promotions", d2, laravelPager, "* "+staffName),
		set("resignations", "resignations", d2, nil, "* "+staffName),
		set("terminations", "terminations", d1, itemsPager, "*"),
		set("employee-transfers", "employee_transfers", d2, nil, "*"),
	}
}
