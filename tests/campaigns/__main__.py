from campaigns.command import main

raise SystemExit(main())
